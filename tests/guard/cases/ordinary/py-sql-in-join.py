def get(cur, ids):
    marks = ','.join(['%s'] * len(ids))
    cur.execute(f'SELECT * FROM t WHERE id IN ({marks})', ids)
