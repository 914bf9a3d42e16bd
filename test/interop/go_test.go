package interop

var goClients = []client{}
