class Users:
    def _columns(self):
        return ", ".join(["id", "name"])

    def find(self, name):
        return self.db.execute("SELECT " + self._columns() + " FROM users WHERE name = ?", (name,))
