package etcdkv

import "time"

func init() { lookAgain, compactEvery = 50*time.Millisecond, 100*time.Millisecond }
