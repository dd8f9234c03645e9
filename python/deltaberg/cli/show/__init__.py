"""The output of commands: tables for people, and lines for programs."""
