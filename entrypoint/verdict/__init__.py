"""Why a run ended: evidence is gathered, one explanation is chosen, and how sure it is is said."""
