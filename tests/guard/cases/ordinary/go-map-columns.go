package store

var columns = map[string]string{"name": "name", "age": "age"}

func (s *Store) List(sort string) error {
	col, ok := columns[sort]
	if !ok {
		col = "name"
	}
	_, err := s.db.Query("SELECT * FROM t ORDER BY " + col)
	return err
}
