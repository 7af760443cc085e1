"""Tables: reading, cleaning, features and target."""
