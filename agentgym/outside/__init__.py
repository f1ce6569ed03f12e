"""The door for everything that comes from elsewhere: text, files, HTTP, chat endpoints."""
