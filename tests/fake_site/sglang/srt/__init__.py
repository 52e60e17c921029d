"""The part of the fake engine that the supervisor asks for flags."""
