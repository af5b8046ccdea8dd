"""``python -m gateway`` is ``mgw``."""

from mgw.gateway.cli.main import main

if __name__ == "__main__":
    main()
