package interop

var javaClients = []client{}
