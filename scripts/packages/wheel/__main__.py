"""`python -m estrain`, where the folder of commands is not in PATH."""
from estrain import main

main()
