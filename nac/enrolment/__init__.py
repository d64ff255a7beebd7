"""How devices come by certificates: one-time secrets, what may be asked with them, renewals."""
