"""Build workflows for n8n from a prompt."""
