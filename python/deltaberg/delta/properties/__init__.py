"""Table properties and protocols: what Delta knows, who may set it, and which features it takes."""
