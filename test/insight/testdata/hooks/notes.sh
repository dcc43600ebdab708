echo "It is not executable."
