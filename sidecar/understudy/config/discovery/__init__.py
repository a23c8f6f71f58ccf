"""Find what this machine has: installed agent CLIs and running model servers."""
