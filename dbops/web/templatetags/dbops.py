"""Filters and tags of every template."""

from django import template

register = template.Library()
