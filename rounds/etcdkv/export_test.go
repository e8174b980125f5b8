package etcdkv

import "time"

func init() { lookAgain = 50 * time.Millisecond }
