"""What commands print: tables for people, and lines for programs."""
