"""What breaks things for real. Each injector undoes what it did when its ``with`` block ends, whatever happened inside."""
