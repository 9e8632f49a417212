ORDERS = {'new': 'created_at DESC', 'old': 'created_at ASC'}
def listing(cur, order):
    cur.execute('SELECT * FROM t ORDER BY ' + ORDERS.get(order, 'id'))
