"""Values as a tree, their types, and what bound values are evaluated by."""
