"""Write delegators in the formats of other programs: agent profiles, and workflows of AGNT."""
