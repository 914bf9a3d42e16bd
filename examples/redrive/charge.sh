#!/bin/sh
# Charges the order on standard input. The bank is up while the file bank-is-up exists.
read -r order || true
case $order in
'{'*'}') ;;
*) echo "it is no order: $order" && exit 65 ;; # poison: another attempt would fail too
esac
test -e bank-is-up || { echo "the bank does not answer" && exit 1; }
echo "charged $order"
