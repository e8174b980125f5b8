// Package disk is a depot's data on its disk: the folder that it was given, and in it
// the shares that it keeps, each with its leases beside it. It promises nothing to
// outsiders.
//
//	depot               identity: the names of the depot and of its database
//	lock                held by the one process that uses the folder
//	shares/XX/ID/       a share; XX is the first byte of its hash, in hex
//	    manifest        its list of files
//	    leases          account names and ends; written before the database commits
//	    leases.more     changes of those, if they are many
//	    sources         where to fetch it from, as JSON
//	    data/NAME         its file or folder, once it is complete
//	    data/NAME.partial until then, as in any transfer
//	going/ID/           a share that is being removed
//	bringing/ID/        a share that is being imported, until it is whole
//
// So a share, its state and its leases can be read from the disk alone. Nothing is
// written, removed or believed while the identity is missing or another depot's: then
// the disk is not mounted, or belongs to somebody else.
package disk
