package interop

var javascriptClients = []client{}
