"""One importer a file: a foreign Document to Sessions, by way of OpenAI messages."""
