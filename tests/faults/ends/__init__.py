"""Both ends of a route as outsiders see them, with the clients of the messaging systems, never with our links."""
