package p

import (
	"crypto/md5"
	"fmt"
)

func etag(b []byte) string { return fmt.Sprintf("%x", md5.Sum(b)) }
