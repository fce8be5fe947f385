"""What the law checks run over: one line for each operator, loss and map."""
