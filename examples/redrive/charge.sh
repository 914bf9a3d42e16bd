#!/bin/sh
# Charges the order on standard input while the bank is up: it is when the file bank-is-up exists.
read -r order || true
case $order in
'{'*'}') ;;
*) echo "it is no order: $order" && exit 65 ;; # poison: no attempt will ever succeed
esac
test -e bank-is-up || { echo "the bank does not answer" && exit 1; }
echo "charged $order"
