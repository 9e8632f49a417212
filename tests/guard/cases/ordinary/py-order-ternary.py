def listing(cur, request):
    order = request.args['o'] if request.args['o'] in ('a', 'b') else 'a'
    cur.execute('SELECT * FROM t ORDER BY ' + order)
