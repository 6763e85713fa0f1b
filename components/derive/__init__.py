"""From what a person states to what every layer gets. Pure: config and pool facts in, specs out."""
