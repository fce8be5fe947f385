"""What lemmax promises about speed and memory, measured; ``make bench`` runs it."""
