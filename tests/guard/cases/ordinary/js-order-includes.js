const COLUMNS = ['name', 'created_at']
export function list(db, req) {
  const order = COLUMNS.includes(req.query.sort) ? req.query.sort : 'name'
  return db.query(`SELECT * FROM t ORDER BY ${order}`)
}
