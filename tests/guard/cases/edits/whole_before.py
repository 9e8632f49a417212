def f(db, name):
    cur = db.cursor()
    cur.execute("SELECT id FROM users WHERE name = '" + name + "'")
    return cur
