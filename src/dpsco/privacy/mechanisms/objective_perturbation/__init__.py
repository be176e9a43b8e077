"""Privacy of perturbed minimisers."""
