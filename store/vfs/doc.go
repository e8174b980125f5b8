// Package vfs lies between store and a disk. It has the small interface [FS], an
// implementation for folders of this machine, and what every user of a disk needs: files
// that are written whole or not at all, records with a checksum, a folder for temporary
// files, and a bounded number of open files. It promises nothing to outsiders.
//
//	fs.go       FS, File and Info; stamps; reading, writing and removing by name
//	osfs.go     a folder of this machine; sys_*.go and boot_*.go are what differs by system
//	record.go   small files that are whole or worthless
//	temp.go     where files are written before they get their name
//	handles.go  files and folders kept open, with cache.go
//
// Package storetest has another [FS]: in memory, one that fails when told to, and
// forgets what was not synced.
package vfs
