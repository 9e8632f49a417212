package p

import "os"

func f(p string) error { return os.Chmod(p, 0777) }
