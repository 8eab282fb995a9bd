"""Fixtures that speak the domain: products, lakes, crashes."""
