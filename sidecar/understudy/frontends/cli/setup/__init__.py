"""Commands that configure Understudy and check the machine."""
