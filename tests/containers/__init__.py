"""Tests that run containers: the image, and docker-compose.yml."""
