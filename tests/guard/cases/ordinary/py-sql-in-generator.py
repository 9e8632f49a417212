def get(cur, ids):
    cur.execute('SELECT * FROM t WHERE id IN (%s)' % ', '.join('?' for _ in ids), ids)
