import { sql } from 'slonik'
export const find = (db: any, n: string) => db.query(sql`select * from t where n = ${n}`)
