"""What people read: tables, figures, the report page."""
