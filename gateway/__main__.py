"""``python -m gateway`` is ``mgw``."""

from gateway.cli.main import main

if __name__ == "__main__":
    main()
