"""What the cross-checks share: tools of others, trees to show them, and the collected images."""
