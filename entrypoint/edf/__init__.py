"""Environment definition files: what a container of CSCS's Container Engine is made of, read, checked and written."""
