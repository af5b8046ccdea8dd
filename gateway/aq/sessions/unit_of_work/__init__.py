"""How a session keeps what it did until commit, by kind of database and transaction."""
