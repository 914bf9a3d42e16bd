# A cluster of three nodes on three clients of Nomad 1.7 or later, with the Docker driver.
#
# 1. On three clients, and on no other, declare the volume as single.nomad.hcl says. Each node keeps its data there.
#
# 2. Nodes prove themselves to each other with a certificate, which they may share. Make it once, and keep the
#    directory authority safe. Store it beside the keys of the clients:
#
#    tenaq cluster ca new authority
#    tenaq cluster ca node authority node
#    nomad var put nomad/jobs/tenaq keys=@keys.json ca=@node/ca.pem cert=@node/node.pem key=@node/node-key.pem
#
# 3. Run the job. The peers are the addresses of the three clients as Nomad knows them, with port 9326:
#
#    nomad job run -var image=registry.example.com/tenaq:0.2.0 -var peers=10.0.0.1:9326,10.0.0.2:9326,10.0.0.3:9326 \
#      cluster.nomad.hcl
#
# Clients use any of the three: port 9324, or the service "tenaq" of Nomad. After a change of the keys the servers
# read them again. docs/cluster.md says how to replace a node whose volume is lost.

variable "image" {
  type        = string
  description = "The image in your registry. None is built in."
}

variable "peers" {
  type        = string
  description = "The addresses of the three clients with port 9326, separated by commas; the same at each change."
}

job "tenaq" {
  group "node" {
    count          = 3
    shutdown_delay = "5s" # clients that ask Nomad for the address leave first

    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }

    network {
      port "sqs" {
        static = 9324
        to     = 9324
      }
      port "admin" {
        static = 9325
        to     = 9325
      }
      port "cluster" {
        static = 9326
        to     = 9326
      }
    }

    volume "data" {
      type   = "host"
      source = "tenaq"
    }

    restart {
      attempts = 5
      interval = "5m"
      delay    = "5s"
      mode     = "delay" # a node stays where its data is
    }

    update { # one node at a time: the others serve
      max_parallel     = 1
      health_check     = "checks"
      min_healthy_time = "30s" # a node that comes back first catches up
      healthy_deadline = "5m"
    }

    service {
      name     = "tenaq"
      provider = "nomad"
      port     = "sqs"

      check {
        name     = "ready" # not ready: it has known no leader for 3 s, lacks disk space, or stops
        type     = "http"
        port     = "admin"
        path     = "/readyz"
        interval = "5s"
        timeout  = "2s"
      }
    }

    service {
      name     = "tenaq-admin" # for Prometheus: /metrics
      provider = "nomad"
      port     = "admin"

      check {
        name     = "live" # not live: the disk does not finish what it began
        type     = "http"
        path     = "/livez"
        interval = "10s"
        timeout  = "5s"

        check_restart {
          limit = 3
          grace = "5m"
        }
      }
    }

    task "tenaq" {
      driver       = "docker"
      kill_signal  = "SIGTERM"
      kill_timeout = "20s" # a server takes at most ten seconds; a node hands over the lead first

      config {
        image           = var.image
        args            = ["serve", "--log-format", "json"]
        ports           = ["sqs", "admin", "cluster"]
        readonly_rootfs = true
        cap_drop        = ["all"]
        security_opt    = ["no-new-privileges"]
      }

      env {
        TENAQ_LISTEN            = "0.0.0.0:9324"
        TENAQ_ADMIN_LISTEN      = "0.0.0.0:9325"
        TENAQ_DATA_DIR          = "/var/lib/tenaq/data"
        TENAQ_CREDENTIALS       = "${NOMAD_SECRETS_DIR}/keys.json"
        TENAQ_CLUSTER_LISTEN    = "0.0.0.0:9326"
        TENAQ_CLUSTER_ADVERTISE = "${NOMAD_ADDR_cluster}"
        TENAQ_CLUSTER_PEERS     = var.peers
        TENAQ_CLUSTER_IDENTITY  = "${NOMAD_SECRETS_DIR}/identity"
      }

      template {
        data          = "{{ with nomadVar \"nomad/jobs/tenaq\" }}{{ .keys }}{{ end }}"
        destination   = "secrets/keys.json"
        perms         = "0400"
        uid           = 65532
        gid           = 65532
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }

      template {
        data        = "{{ with nomadVar \"nomad/jobs/tenaq\" }}{{ .ca }}{{ end }}"
        destination = "secrets/identity/ca.pem"
        perms       = "0400"
        uid         = 65532
        gid         = 65532
        change_mode = "noop"
      }

      template {
        data        = "{{ with nomadVar \"nomad/jobs/tenaq\" }}{{ .cert }}{{ end }}"
        destination = "secrets/identity/node.pem"
        perms       = "0400"
        uid         = 65532
        gid         = 65532
        change_mode = "noop"
      }

      template {
        data        = "{{ with nomadVar \"nomad/jobs/tenaq\" }}{{ .key }}{{ end }}"
        destination = "secrets/identity/node-key.pem"
        perms       = "0400"
        uid         = 65532
        gid         = 65532
        change_mode = "noop"
      }

      volume_mount {
        volume      = "data"
        destination = "/var/lib/tenaq"
      }

      resources {
        cpu    = 1000
        memory = 1024
      }
    }
  }
}
