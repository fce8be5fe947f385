"""Problems with a known solution, and what the methods make of them."""
