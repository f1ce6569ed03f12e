"""Input from outside: text, files, HTTP, chat endpoints."""
